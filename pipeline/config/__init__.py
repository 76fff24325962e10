"""What did the user ask for, and on which engine? Everything is checked when it is made."""
