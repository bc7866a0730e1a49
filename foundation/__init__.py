"""What every layer uses: types of arrays, bounds of numbers and names, and spelling suggestions."""
