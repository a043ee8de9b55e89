# M4, M7: a will with a delay is published once, whatever is killed while it is: the server at the points that matter, a
# front door, an appender.
use strict;
use warnings;
use Test::More;
use FleetlogTest;
use FleetlogTest::Wills;

my $s = FleetlogTest->new('willkill', conf => "fleetlog.session_journal_size = 64kB\nfleetlog.worker_retry = 100ms\nwal_consistency_checking = 'all'\n");
$s->fleet;
my $w = FleetlogTest::Wills->new($s);

# There is something to keep only when somebody had a session.
$w->client('before', undef)->disconnect;

my %by_door;
# A client that is gone, whose will is about to be published: the next process that comes to the point stands there.
# True when it does, false when the will has gone another way: whether a door writes by itself is a matter of speed.
sub stop_in_the_middle
{
    my ($id, $point) = @_;
    $s->stop_points('keeper_turn');
    $s->wait_stopped_at('keeper_turn');
    $w->client($id, 1)->reset;
    $s->wait_for("SELECT connected FROM fleetlog.stat_session WHERE client_id = '$id'", 'f', "$id to be gone");
    $s->stop_points($point);
    if (!$by_door{$point}) { $s->wait_stopped_at($point); return 1; }
    my $there = "SELECT count(*) > 0 FROM fleetlog.stat_worker WHERE stop_point = '$point'";
    $s->wait_for("SELECT ($there) OR EXISTS (SELECT FROM telemetry WHERE key = 'acme/d1/$id')", 't', "a process to stop at $point, or the will");
    return $s->sql($there) eq 't';
}
# Killed in the middle of it, at each point: once.  Those of a door that writes by itself are tried a few times.
%by_door = map { $_ => 1 } qw(door_after_write door_after_commit door_before_flush);
for my $point (qw(journal_after_write door_before_ack appender_after_write appender_after_commit flusher_before_flush), sort keys %by_door)
{
    my $n = 0;
    my $there;
    do { $there = stop_in_the_middle("at-$point-" . ++$n, $point); } until $there || $n == ($by_door{$point} ? 3 : 1);
    note("$point: nobody came by") unless $there;
    $s->kill9;
    $s->set_conf();
    $s->start_after_crash;
    for my $id (map { "at-$point-$_" } 1 .. $n)
    {
        $w->wait_for($id);
        $w->end_session($id);
        is($w->published($id), 'w', "killed at $point: $id is published once");
    }
}

# A door or an appender that ends in the middle of it: once.
for my $victim (qw(front_door appender))
{
    my $point = $victim eq 'appender' ? 'appender_after_write' : 'door_before_ack';
    stop_in_the_middle("end-$victim", $point);
    $s->sql("SELECT pg_terminate_backend(pid) FROM fleetlog.stat_worker WHERE stop_point = '$point'");
    $s->stop_points();
    $s->wait_for_mqtt;
    $w->wait_for("end-$victim");
    FleetlogTest::wait_until(sub { eval { $w->end_session("end-$victim"); 1 } }, 'the session to end');
    is($w->published("end-$victim"), 'w', "$victim ends in the middle of it: published once");
}

is($s->density_faults, '', 'offsets dense');
is($s->crashes, '', 'no other crash');
$s->node->stop;
done_testing();
