"""Clients of try: transfers over both nodes, inserts on each of them, readers; and what they have seen.

    try_clients.py run CONNINFO FOLDER                 until FOLDER/end is there; FOLDER/pause has them wait
    try_clients.py report FOLDER FROM TO               figures of the time between (seconds since 1970)
    try_clients.py went_on FOLDER SINCE                whether all kinds have succeeded since then
    try_clients.py verify CONNINFO FOLDER              whether rows and sums are those that were acknowledged

FOLDER/log has a line for each thing done: when it ended, its kind, its result (ok, an SQLSTATE, "lost", "WRONG ...").
FOLDER/acknowledged has the numbers of entries whose commit the client has been told of.

Inserts go to one account of each node with ever higher numbers, and the readers any_n1 and any_n2 look for the highest
one, also on a standby (shardfdw.read_from = 'any'): it has to be there if it was acknowledged longer ago than
shardfdw.max_standby_lag.

A transfer takes from an account of n1, gives to one of n2, and writes an entry beside each, both with its number; an
insert writes one entry. So each number has the entries of a transfer, or the one of an insert, or none.
"""

import bisect
import itertools
import os
import random
import sys
import threading
import time

import psycopg2

NACCOUNTS = 1000
START = 1000  # what each account has
KINDS = ('transfer', 'insert_n1', 'insert_n2', 'sum', 'read_n1', 'read_n2', 'any_n1', 'any_n2')
NTHREADS = {'transfer': 3}
LAG = 60  # seconds, shardfdw.max_standby_lag
CONNECT = dict(connect_timeout=5, keepalives_idle=5, keepalives_interval=2, keepalives_count=3, tcp_user_timeout=10000,
               options='-c statement_timeout=10s')


def accounts_by_node(conninfo):
    with psycopg2.connect(conninfo, **CONNECT) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT s.node, array_agg(a.id) FROM account a JOIN shardfdw.shards s"
                       " ON s.shard::regclass = shardfdw.shard_for('account', a.id) GROUP BY s.node")
        return dict(cursor.fetchall())


class Clients:
    def __init__(self, conninfo, folder):
        self.conninfo = conninfo
        self.folder = folder
        self.accounts = accounts_by_node(conninfo)
        self.numbers = itertools.count(1)
        self.log = open(folder + '/log', 'a', buffering=1)
        self.acknowledged = open(folder + '/acknowledged', 'a', buffering=1)
        self.inserted = {node: [] for node in self.accounts}  # of each node: when a number was acknowledged, the number
        self.paused = set()

    def exists(self, name):
        return os.path.exists(os.path.join(self.folder, name))

    def run(self):
        threads = [threading.Thread(target=self.client, args=(kind,)) for kind in KINDS for _ in range(NTHREADS.get(kind, 1))]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            if self.exists('pause') and len(self.paused) == len(threads):
                open(self.folder + '/paused', 'w').close()
            time.sleep(0.05)

    def client(self, kind):
        connection = None
        while not self.exists('end'):
            if self.exists('pause'):
                self.paused.add(threading.get_ident())
                time.sleep(0.05)
                continue
            self.paused.discard(threading.get_ident())
            try:
                if connection is None:
                    connection = self.connect(kind)
                result = self.once(kind, connection)
            except psycopg2.Error as error:
                result = error.pgcode or 'lost'
                try:
                    connection.rollback()
                except (psycopg2.Error, AttributeError):
                    connection = None
            self.log.write('%.3f %s %s\n' % (time.time(), kind, result))
            time.sleep(0.005 if result == 'ok' else 0.05)

    def connect(self, kind):
        connection = psycopg2.connect(self.conninfo, **CONNECT)
        if kind.startswith('any'):
            with connection.cursor() as cursor:
                cursor.execute("SET shardfdw.read_from = 'any'")
                cursor.execute('SET shardfdw.max_standby_lag = %s', ('%ds' % LAG,))
            connection.commit()
        return connection

    def once(self, kind, connection):
        number = None
        node = kind[-2:]
        begun = time.time()
        with connection.cursor() as cursor:
            if kind == 'transfer':
                number = next(self.numbers)
                amount = random.randint(1, 100)
                for node, sign in ('n1', -1), ('n2', 1):
                    account = random.choice(self.accounts[node])
                    cursor.execute('UPDATE account SET v = v + %s WHERE id = %s', (sign * amount, account))
                    cursor.execute('INSERT INTO entry VALUES (%s, %s, %s)', (account, number, sign * amount))
            elif kind.startswith('insert'):
                number = next(self.numbers)
                cursor.execute('INSERT INTO entry VALUES (%s, %s, 0)', (self.accounts[node][0], number))
            elif kind == 'sum':
                cursor.execute("SET LOCAL shardfdw.snapshot = 'cluster'")
                cursor.execute('SELECT sum(v) FROM account')
                (total,) = cursor.fetchone()
                if total != NACCOUNTS * START:
                    return 'WRONG sum %s' % total
            elif kind.startswith('any'):
                cursor.execute('SELECT max(number) FROM entry WHERE account = %s AND amount = 0', (self.accounts[node][0],))
                (found,) = cursor.fetchone()
                nold = bisect.bisect_left(self.inserted[node], (begun - LAG,))
                expected = self.inserted[node][nold - 1][1] if nold > 0 else 0
                if (found or 0) < expected:
                    return 'WRONG %s is missing, the last one is %s' % (expected, found)
            else:
                cursor.execute('SELECT v FROM account WHERE id = %s', (random.choice(self.accounts[node]),))
                cursor.fetchone()
        connection.commit()
        if number is not None:
            self.acknowledged.write('%d\n' % number)
        if kind.startswith('insert'):
            self.inserted[node].append((time.time(), number))
        return 'ok'


def lines(folder):
    with open(folder + '/log') as log:
        for line in log:
            when, kind, result = line.rstrip('\n').split(' ', 2)
            yield float(when), kind, result


def report(folder, start, end):
    """Prints for each kind the longest time without a success, and errors; fails if a reader has seen what is wrong."""
    last = {kind: start for kind in KINDS}
    gap = {kind: 0.0 for kind in KINDS}
    errors = {kind: {} for kind in KINDS}
    wrong = False
    for when, kind, result in lines(folder):
        if not start <= when <= end:
            continue
        if result == 'ok':
            gap[kind] = max(gap[kind], when - last[kind])
            last[kind] = when
        else:
            errors[kind][result] = errors[kind].get(result, 0) + 1
            wrong = wrong or result.startswith('WRONG')
    for kind in KINDS:
        gap[kind] = max(gap[kind], end - last[kind])
        print('   %-10s stood still for %5.1f s; errors: %s' %
              (kind, gap[kind], ', '.join('%s (%d)' % item for item in sorted(errors[kind].items())) or 'none'))
    return not wrong


def went_on(folder, since):
    return {kind for when, kind, result in lines(folder) if when > since and result == 'ok'} == set(KINDS)


def verify(conninfo, folder):
    with open(folder + '/acknowledged') as file:
        acknowledged = {int(number) for number in file}
    with psycopg2.connect(conninfo, **CONNECT) as connection, connection.cursor() as cursor:
        cursor.execute('SELECT number, count(*), sum(amount), min(amount) = 0 FROM entry GROUP BY number')
        entries = {number: rest for number, *rest in cursor.fetchall()}
        cursor.execute('SELECT sum(v) FROM account')
        (total,) = cursor.fetchone()
        cursor.execute('SELECT count(*) FROM (SELECT id FROM account a LEFT JOIN entry e ON e.account = a.id'
                       ' GROUP BY a.id, a.v HAVING a.v <> %s + coalesce(sum(e.amount), 0)) x', (START,))
        (differ,) = cursor.fetchone()
    lost = sorted(acknowledged - entries.keys())
    torn = sorted(n for n, (count, amounts, is_insert) in entries.items() if amounts != 0 or count != (1 if is_insert else 2))
    print('   %d acknowledged, %d there; lost: %s; torn: %s; sum %s; %d accounts differ from their entries' %
          (len(acknowledged), len(entries), lost[:10] or 'none', torn[:10] or 'none',
           'right' if total == NACCOUNTS * START else 'WRONG %s' % total, differ))
    return not lost and not torn and total == NACCOUNTS * START and differ == 0


def main(what, *args):
    if what == 'run':
        Clients(*args).run()
        return 0
    if what == 'report':
        return 0 if report(args[0], float(args[1]), float(args[2])) else 1
    if what == 'went_on':
        return 0 if went_on(args[0], float(args[1])) else 1
    if what == 'verify':
        return 0 if verify(*args) else 1
    return 2


sys.exit(main(*sys.argv[1:]))
