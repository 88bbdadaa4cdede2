from tests.surfaces.server.conftest import desk, house

__all__ = ["desk", "house"]
