"""Lists and search: paging with counts, saved views, columns, selections, the palette, reasons of failures."""
