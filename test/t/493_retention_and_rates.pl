# L7: streams keep their retention by age and by size, and stay below the ceilings of segments, at whatever rate: a record a
# minute, 50,000 a second, and from one to the other.  Time is moved by the test clock.
use strict;
use warnings;
use Test::More;
use FleetlogTest;

my $s = FleetlogTest->new('rates', no_wait => 1, conf => "fleetlog.retention_grace = '0'\nfleetlog.max_xids_per_second = 0\nfleetlog.mqtt_listen = ''\n");
$s->sql(<<'SQL');
SELECT fleetlog.create_stream('slow', retention_age => '7 days');
SELECT fleetlog.create_stream('flood', retention_age => '3 s');
SELECT fleetlog.create_stream('falling', retention_age => '1 day');
SELECT fleetlog.create_stream('sized', shards => 2, retention_bytes => 4000000);
SQL
my $offset = 0;    # of the clock, in seconds; the setting is in milliseconds, in an int: 24 days at most
my %most;

sub move_clock
{
    my ($seconds) = @_;
    $offset += $seconds;
    $s->set_conf('fleetlog.clock_offset' => $offset * 1000 . 'ms');
    return;
}

# How long ago, by the test clock, the oldest record of a stream was written.
sub age { return "SELECT coalesce(extract(epoch FROM clock_timestamp()) + $offset - extract(epoch FROM min(ts)), 0) FROM $_[0]" }

sub count_segments
{
    my ($stream) = @_;
    my $n = $s->sql("SELECT count(*) FROM fleetlog._segments('$stream')");

    $most{$stream} = $n if $n > ($most{$stream} // 0);
    return $n;
}

sub ceiling
{
    my ($stream, $most) = @_;
    FleetlogTest::wait_until(sub { count_segments($stream) <= $most }, "$stream to have no more than $most segments");
    return pass("$stream: no more than $most segments ($most{$stream} at most on the way)");
}

# Sixteen days: the slow one gets a record a minute, the falling one hundreds of times as many on its first day as later.
my $bytes_of_falling = "SELECT coalesce(sum(pg_relation_size(segment)), 0) FROM fleetlog._segments('falling')";
my $full = 0;
for my $step (1 .. 32)
{
    move_clock(12 * 3600);
    $s->sql("SELECT count(fleetlog.append('slow', 'k', 'x')) FROM generate_series(1, 720)");
    $s->sql("SELECT count(fleetlog.append('falling', 'k', decode(md5(n::text), 'hex'))) FROM generate_series(1, " . ($step <= 2 ? 15000 : 40) . ') n');
    count_segments('slow');
    $full = $s->sql($bytes_of_falling) if $step == 2;
    next if $step % 8;
    # A record may be a sixteenth of the retention late, and the turn of the keeper.
    $s->wait_for('SELECT (' . age('slow') . ") <= 7 * 86400 * 17 / 16 + 13 * 3600", 't', 'the slow stream to keep its retention (day ' . $step / 2 . ')');
    # Between two turns of the keeper there may be more; it has no part in how fast this test goes.
    ceiling('slow', 20);
}
$s->wait_for("SELECT min(lower) > 6000 FROM fleetlog._segments('slow')", 't', 'old segments of it to go');
cmp_ok($s->sql("SELECT count(*) FROM slow"), '>', 7 * 24 * 60 * 0.8, 'and what is young enough is there');

# The rate fell to a few hundredths: the wide segment was cut, so that what was in it could go.
cmp_ok($full, '>', 500_000, "the fast day took $full bytes");
$s->wait_for("SELECT fleetlog.head('falling', 0) > 30000", 't', 'the records of the fast day to expire');
FleetlogTest::wait_until(sub { $s->sql($bytes_of_falling) < $full / 4 }, 'their space to come back');
ceiling('falling', 20);

# 50,000 in each second of the test clock.
for my $second (1 .. 10)
{
    move_clock(1);
    $s->sql("SELECT count(fleetlog.append('flood', 'k', 'x')) FROM generate_series(1, 50000)");
    $s->wait_for('SELECT (' . age('flood') . ') <= 3 * 17 / 16 + 3', 't', "the flood to keep its retention (second $second)");
    ceiling('flood', 32);
}
$s->wait_for("SELECT min(lower) > 200000 FROM fleetlog._segments('flood')", 't', 'old segments of it to go');

# By size: the oldest of both shards go, and at least retention_bytes stay.
for my $i (1 .. 6)
{
    $s->sql("SELECT count(fleetlog.append('sized', NULL, decode(repeat(md5(n::text), 8), 'hex'), shard => n % 2)) FROM generate_series(1, 10000) n");
}
$s->wait_for("SELECT sum(stored_bytes) BETWEEN 4000000 AND 7500000 FROM fleetlog.stat_stream WHERE stream = 'sized'::regclass", 't', 'retention by size');
is($s->sql("SELECT count(*) FROM generate_series(0, 1) x WHERE fleetlog.head('sized', x) > 0"), '2', 'both shards have lost their oldest segments');
is($s->sql("SELECT (SELECT count(*) FROM sized) = sum(fleetlog.tail('sized', x) - fleetlog.head('sized', x)) FROM generate_series(0, 1) x"), 't', 'what is left is dense');

# A retention that is changed is looked at with the next turn, not when the last look was to be repeated.
$s->sql("SELECT fleetlog.alter_stream('slow', retention_age => '1 hour')");
move_clock(2 * 3600);
$s->wait_for("SELECT fleetlog.head('slow', 0) = fleetlog.tail('slow', 0)", 't', 'all to expire by a shorter retention');
$s->wait_for('SELECT count(*) FROM fleetlog.detached_segment', '0', 'what was detached to be dropped');
is($s->crashes, '', 'no crash');
$s->node->stop;
done_testing();
