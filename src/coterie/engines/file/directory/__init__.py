"""The lock directory of one machine: its folders and files, and how programs read and write them."""
