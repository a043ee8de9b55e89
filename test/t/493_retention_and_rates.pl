# L7: streams keep their retention by age and by size, and stay below the ceilings of segments, at whatever rate: a record a
# minute, many a second, and from one to the other.  Time is moved by the test clock.
use strict;
use warnings;
use Test::More;
use FleetlogTest;

my $s = FleetlogTest->new('rates', conf => "fleetlog.retention_grace = '0'\nfleetlog.max_xids_per_second = 0\n");
$s->sql(<<'SQL');
SELECT fleetlog.create_stream('slow', retention_age => '7 days');
SELECT fleetlog.create_stream('quick', retention_age => '2 hours');
SELECT fleetlog.create_stream('falling', retention_age => '1 day');
SELECT fleetlog.create_stream('sized', shards => 2, retention_bytes => 4000000);
SQL
my $hours = 0;
my ($most_slow, $most_quick) = (0, 0);
my $segments = sub { $s->sql("SELECT count(*) FROM fleetlog._segments('$_[0]')") };

# The setting is in milliseconds, in an int: 24 days at most.
sub move_clock
{
    my ($add) = @_;
    $hours += $add;
    $s->set_conf('fleetlog.clock_offset' => sprintf('%dms', $hours * 3600_000));
    return;
}

# Sixteen days: the slow one gets 60 records an hour, the falling one a thousand times as many on its first day as later.
for my $step (1 .. 32)
{
    move_clock(12);
    $s->sql("SELECT count(fleetlog.append('slow', 'k', 'x')) FROM generate_series(1, 720); SELECT count(fleetlog.append('falling', 'k', 'x')) FROM generate_series(1, "
          . ($step <= 2 ? 40000 : 40) . ')');
    $most_slow = $segments->('slow') if $segments->('slow') > $most_slow;
    next if $step % 8;
    # A record may be a sixteenth of the retention late, and the turn of the keeper.
    $s->wait_for("SELECT coalesce(extract(epoch FROM clock_timestamp()) + $hours * 3600 - extract(epoch FROM min(ts)), 0) <= 7 * 86400 * 17 / 16 + 13 * 3600 FROM slow", 't', "the slow stream to keep its retention (day " . $hours / 24 . ')');
}
cmp_ok($most_slow, '<=', 20, "a record a minute: $most_slow segments at most");
cmp_ok($s->sql("SELECT min(lower) FROM fleetlog._segments('slow')"), '>', 6000, 'old segments of it have gone');
cmp_ok($s->sql("SELECT count(*) FROM slow"), '>', 7 * 24 * 60 * 0.8, 'and what is young enough is there');

# The rate fell from 20,000 in six hours to some a day: the wide segment was cut, so that what was in it could go.
$s->wait_for("SELECT fleetlog.head('falling', 0) > 80000", 't', 'the records of the fast hours to expire');
$s->wait_for("SELECT coalesce(sum(pg_relation_size(segment)), 0) < 1500000 FROM fleetlog._segments('falling')", 't', 'their space to come back');
cmp_ok($segments->('falling'), '<=', 20, 'a falling rate: ' . $segments->('falling') . ' segments');

# Quick: two hours of retention, 6,000 records each 10 minutes.
for my $step (1 .. 24)
{
    move_clock(1 / 6);
    $s->sql("SELECT count(fleetlog.append('quick', 'k', 'x')) FROM generate_series(1, 6000)");
    my $n = $segments->('quick');
    $most_quick = $n if $n > $most_quick;
}
$s->wait_for("SELECT coalesce(extract(epoch FROM clock_timestamp()) + $hours * 3600 - extract(epoch FROM min(ts)), 0) <= 7200 * 17 / 16 + 1200 FROM quick", 't', 'the quick stream to keep its retention');
cmp_ok($most_quick, '<=', 32, "10 a second: $most_quick segments at most");

# By size: the oldest of both shards go, and at least retention_bytes stay.
for my $i (1 .. 6)
{
    $s->sql("SELECT count(fleetlog.append('sized', NULL, decode(repeat(md5(n::text), 8), 'hex'), shard => n % 2)) FROM generate_series(1, 10000) n");
}
$s->wait_for("SELECT sum(stored_bytes) BETWEEN 4000000 AND 7500000 FROM fleetlog.stat_stream WHERE stream = 'sized'::regclass", 't', 'retention by size');
is($s->sql("SELECT count(*) FROM generate_series(0, 1) x WHERE fleetlog.head('sized', x) > 0"), '2', 'both shards have lost their oldest segments');
is($s->sql("SELECT (SELECT count(*) FROM sized) = sum(fleetlog.tail('sized', x) - fleetlog.head('sized', x)) FROM generate_series(0, 1) x"), 't', 'what is left is dense');
is($s->sql('SELECT count(*) FROM fleetlog.detached_segment'), '0', 'nothing is left detached');
is($s->crashes, '', 'no crash');
$s->node->stop;
done_testing();
