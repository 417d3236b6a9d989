"""The page of a study: one HTML file that shows the answer, the search results and the mistakes of every method.

`content` is what the page shows, as one typed structure; `collect` and `looking` fill it from run folders, and `write`
puts it into the page. Importing this package imports none of them.
"""
