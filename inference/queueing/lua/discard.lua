-- Removes an entry that nobody can be told about. Keys and arguments: see entry.lua.
remove_entry()
return 1
