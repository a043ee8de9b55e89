# C1, C2: commands to a whole fleet of connected devices at once: every one is delivered, once, while the memory of the
# dispatcher and of the front doors stays what it was.  1,000 devices every day, 10,000 with FLEETLOG_LONG.
use strict;
use warnings;
use Test::More;
use Time::HiRes qw(time);
use FleetlogTest;
use FleetlogTest::Fleet;

my $n = $ENV{FLEETLOG_LONG} ? 10_000 : 1_000;
my $s = FleetlogTest->new('commandfleet', conf => "fleetlog.max_connections = 20000\nmax_locks_per_transaction = 256\n");
$s->fleet(devices => 0);
my $file = FleetlogTest::Fleet->register($s, 'fleet', 1, $n);
my $fleet = FleetlogTest::Fleet->start($s, '-c', $n, '--credentials', $file, '--boot', '1', '--interval', '600', '--seed', '7');
$fleet->wait_connected($n);

sub memory
{
    my $kb = 0;
    for my $pid (split /\n/, $s->sql("SELECT pid FROM fleetlog.stat_worker WHERE kind IN ('commands', 'front_door') AND pid IS NOT NULL"))
    {
        open my $f, '<', "/proc/$pid/smaps_rollup" or next;
        while (<$f>) { $kb += $1 if /^(?:Private_Dirty|Private_Clean):\s+(\d+)/; }
    }
    return $kb;
}

sub round
{
    my ($name) = @_;
    my $begin = time;
    $s->sql("SELECT count(fleetlog.send_command('acme/' || id, '$name', '{\"v\": 7}', ttl => '10 min')) FROM fleetlog.device");
    my $called = time - $begin;
    $s->wait_for("SELECT count(*) FROM fleetlog.command WHERE name = '$name' AND state = 'delivered'", $n, 'all to be delivered');
    my $took = time - $begin;
    diag(sprintf('%s: %d commands: called in %.2f s, sent by %.2f s, all delivered and known to be in %.2f s',
        $name, $n, $called, $s->sql("SELECT extract(epoch FROM max(sent_at) - min(issued_at)) FROM fleetlog.command WHERE name = '$name'"), $took));
    return $took;
}

cmp_ok(round('first'), '<', 120, 'the first command reaches all');
my $before = memory();
round("again-$_") for 1 .. ($ENV{FLEETLOG_LONG} ? 5 : 3);
my $after = memory();
diag("memory of dispatcher and front doors: $before kB, then $after kB");
cmp_ok($after, '<', $before * 1.25 + 4096, 'memory stays what it was');
is($s->sql("SELECT count(*) FROM (SELECT command FROM fleetlog.command_event WHERE event = 'delivered' GROUP BY 1 HAVING count(*) > 1) x"), 0, 'each was delivered once');
is($s->sql("SELECT count(*) FROM (SELECT headers ->> 'fl-id' FROM fleetlog.command_log WHERE key ~ '/req/' GROUP BY 1 HAVING count(*) > 1) x"), 0, 'and is in the log once');
$fleet->quit;
is($s->crashes, '', 'no crash');
$s->node->stop;
done_testing();
