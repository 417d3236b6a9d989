document.getElementById("page").textContent="";
