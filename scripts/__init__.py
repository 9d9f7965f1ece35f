"""Programs that the project itself needs: to generate files, and to make a release."""
