"""Pure: what a signal means for the condition of an entity. No I/O, no clock."""
