"""Looking inside: record every tap of a run, change some of them, and take what one run held into another."""
