"""The pages, each made from what the views say; nothing here reads a file or draws."""
