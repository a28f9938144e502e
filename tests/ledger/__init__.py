"""What processes noted while they published and handled records, and what that proves: for any test that hurts them."""
