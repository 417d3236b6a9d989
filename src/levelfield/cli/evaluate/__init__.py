"""`levelfield evaluate`: measure a run or anybody's arrays. Nothing is trained."""
