"""The whole product on one machine: fake nodes, agents, control plane and Envoy under a trace."""
