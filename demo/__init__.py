"""The demonstration: models of a few hundred kilobytes and the engines that serve them."""
