"""The HTTP edge: parse, authorise, call one facade, render. It decides nothing that a facade does not."""
