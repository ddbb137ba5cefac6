"""The page of the Space, which scores uploaded submissions. The metric itself needs none of it."""
