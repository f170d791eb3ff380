"""Klamm: Apache Kafka's Authorizer as a REST/JSON service."""

__version__ = "0.1.0"
