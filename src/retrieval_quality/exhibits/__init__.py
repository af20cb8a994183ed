"""The figures, tables and studies: what each holds, how it is drawn, what is said of it."""
