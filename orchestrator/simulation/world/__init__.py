"""The simulated world: a virtual clock, network and store around the product's own objects."""
