"""The application's hooks, asked by activities: of calls, of requests and of runs."""
