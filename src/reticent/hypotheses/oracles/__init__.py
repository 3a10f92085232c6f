"""How the best hypothesis of a class is found, exactly."""
