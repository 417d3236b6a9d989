/* levelfield page; sources db5bbf68c2b294d6d962466691f642daed226b9070b196406016a6793c8f3171; contains preact and htm, see LICENSES.txt */
(()=>{document.getElementById("page").textContent="";})();
