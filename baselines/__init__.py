"""Every compared system, one package each."""
