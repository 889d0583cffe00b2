"""The weather: a server small enough to see what a contract is.

Notice: what others rely on is the name of the tool, its schema and the shape of its answer. All three
are the signature, so a careless edit of it breaks them. `tests/examples/test_weather_contract.py` holds
them fast with a real client and without any model: copy it for a server of your own.

Exercise: rename `city` to `town` and run that test. Which of its steps finds it, and what does it say?
"""

from dataclasses import dataclass

from mcpcore import Server, ToolError

server = Server("weather", "1.0")


@dataclass
class Weather:
    city: str
    celsius: float
    sky: str


# Fixed data: a test of the contract must not depend on the weather.
REPORTS = [
    Weather("Lisbon", 21.5, "clear"),
    Weather("Oslo", -3.0, "snow"),
    Weather("Quito", 14.0, "rain"),
]


@server.tool
def fetch_weather(city: str) -> Weather:
    """Tell the weather in a city.

    Args:
        city: The name of the city, in English.
    """
    for report in REPORTS:
        if report.city.casefold() == city.strip().casefold():
            return report
    known = ", ".join(report.city for report in REPORTS)
    raise ToolError(f"no weather is known for this city; it is known for {known}")


if __name__ == "__main__":
    server.run()
