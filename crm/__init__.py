"""The worked application: a support desk with real tables, tools, policies and gates."""
