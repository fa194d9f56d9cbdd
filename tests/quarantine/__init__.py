"""A message that ends its process ends alone: blame, charges, quarantine, and real processes that die."""
