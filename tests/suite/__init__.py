"""How the tests are run and judged: tiers, the two looks, the order, the record of what each test did."""
