"""The reader of specs: tables of a TOML file become a lexicon, patterns and sound splits."""
