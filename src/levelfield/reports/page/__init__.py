"""The page of a study: one HTML file that shows the answer, the search results and the mistakes of every method.

`collect` and `one_test_set` make its data from run folders, and `write` puts them into the page. Importing this package
imports none of them.
"""
