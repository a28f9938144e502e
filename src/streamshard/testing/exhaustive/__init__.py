"""Every schedule of a small scope: breadth-first search over the shipped coordinator and the shipped session."""
