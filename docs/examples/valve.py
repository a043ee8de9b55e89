#!/usr/bin/python3
"""A valve: the reference device of device.py with two commands of its own."""
from device import Device, main


class Valve(Device):
    angle = 90

    def act(self, name, payload):
        if name not in ('open', 'close'):
            return super().act(name, payload)
        self.angle = 90 if name == 'open' else 0
        return {'angle': self.angle}


if __name__ == '__main__':
    main(Valve)
