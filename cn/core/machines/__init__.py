"""The four machines of DESIGN 12: thread, actor, sender, receiver. One file each."""
