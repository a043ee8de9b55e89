#!/usr/bin/python3
"""One case of the Eclipse Paho suite (client_test.py of 3.1.1, client_test5.py of 5.0) against one broker.

usage: paho_suite.py FOLDER MODULE PORT CASE     or: paho_suite.py FOLDER MODULE, which prints the cases

FOLDER is "interoperability" of a checkout.  The suite's own command line cannot be pointed elsewhere (the options reach
unittest, too), so its variables are set from here, to what its main part sets.  Each case wants a process of its own, with
a limit in time: one waits for ever where a broker does not end the connection.
"""
import importlib
import sys
import unittest


def main():
    folder, module = sys.argv[1:3]
    sys.path.insert(0, folder)
    # Its cases look at the command line again.
    arguments, sys.argv = sys.argv[3:], [module]
    suite = importlib.import_module(module)
    cases = [name for name in dir(suite.Test) if name.startswith('test')]
    if not arguments:
        print('\n'.join(cases))
        return 0
    prefix = 'client_test5/' if module == 'client_test5' else ''
    suite.host, suite.port, suite.topic_prefix = '127.0.0.1', int(arguments[0]), prefix
    suite.topics = [prefix + topic for topic in ('TopicA', 'TopicA/B', 'Topic/C', 'TopicA/C', '/TopicA')]
    suite.wildtopics = [prefix + topic for topic in ('TopicA/+', '+/C', '#', '/#', '/+', '+/+', 'TopicA/#')]
    suite.nosubscribe_topics = ('test/nosubscribe',)
    suite.setData = lambda: None
    tests = unittest.TestSuite([suite.Test(arguments[1])])
    return 0 if unittest.TextTestRunner(verbosity=2).run(tests).wasSuccessful() else 1


if __name__ == '__main__':
    sys.exit(main())
