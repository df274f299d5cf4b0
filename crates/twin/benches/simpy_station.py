"""The station of event_queue.rs in SimPy, the way its own documentation writes one: a process for each customer, and a resource.

    python simpy_station.py SERVERS CUSTOMERS      prints: events a second, mean wait

Arrivals and departures are counted as events, as in event_queue.rs; SimPy has more of its own.
"""

import random
import sys
import time

import simpy


def main():
    servers, customers = int(sys.argv[1]), int(sys.argv[2])
    chance = random.Random(1)
    environment = simpy.Environment()
    station = simpy.Resource(environment, capacity=servers)
    waits = []
    everybody_left = environment.event()

    def customer():
        arrived = environment.now
        with station.request() as turn:
            yield turn
            waits.append(environment.now - arrived)
            yield environment.timeout(chance.expovariate(1.0))
        if len(waits) >= customers and not everybody_left.triggered:
            everybody_left.succeed()

    def arrivals():
        while True:
            yield environment.timeout(chance.expovariate(0.8 * servers))
            environment.process(customer())

    environment.process(arrivals())
    begin = time.perf_counter()
    environment.run(until=everybody_left)
    seconds = time.perf_counter() - begin
    print(f"{2 * len(waits) / seconds:.0f} {sum(waits) / len(waits):.6f}")


main()
