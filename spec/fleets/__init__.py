"""Several engines and the router in front of them, judged together by what each of them recorded."""
