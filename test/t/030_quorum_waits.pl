# L5: a quorum stream acknowledges only what the synchronous standbys confirmed, whatever happens to names, settings or
# the confirmer, while local streams go on in every case.
use strict;
use warnings;
use Test::More;
use FleetlogTest;

my $s = FleetlogTest->new('primary');
my $error = $s->sql_error("SELECT fleetlog.create_stream('early', durability => 'quorum')");
like($error, qr/synchronous_standby_names/, 'quorum without synchronous standbys is refused at creation, naming the setting');

my $standby = $s->new_standby('standby1');
my %names = (synchronous_standby_names => 'FIRST 1 (standby1)');
$standby->node->start;
$s->set_conf(%names);
$s->wait_for("SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'", 't', 'the synchronous standby');

$s->sql(<<'SQL');
SELECT fleetlog.create_stream('safe', durability => 'quorum');
SELECT fleetlog.create_stream('telemetry');
SELECT fleetlog.create_tenant('acme', 'acme/');
SELECT fleetlog.create_device('d1', 'acme', password => 'pw-d1'), fleetlog.create_device('d2', 'acme', password => 'pw-d2');
SELECT fleetlog.mount('acme/d1/', 'safe'), fleetlog.mount('acme/d2/', 'telemetry');
SQL
my $safe = $s->device('d1');
my $local = $s->device('d2');
my $listener = $s->device('d1', client_id => 'listener');
$listener->subscribe([ 'acme/d1/#' ]);
is($safe->publish_acked('acme/d1/t', 'confirmed'), 0, 'with the standby up a quorum publish is acknowledged');
is(($listener->messages(1))[0]{payload}, 'confirmed', 'and delivered');

my $n = 0;
# Publishes on both streams; the local one must be acknowledged, the other not, until the cause is gone.
sub must_wait
{
    my ($name, $break, $mend) = @_;
    my $text = "case $n"; $n++;

    $break->();
    my $pid = $safe->publish('acme/d1/t', $text, qos => 1);
    is($local->publish_acked('acme/d2/t', "$_ in $text"), 0, "$name: a local stream's publisher goes on ($_)") for 1 .. 3;
    ok($safe->quiet(1), "$name: no PUBACK on the quorum stream");
    ok($listener->quiet(0.3), "$name: no delivery");
    $mend->();
    is($safe->expect('PUBACK')->{pid}, $pid, "$name: the PUBACK comes when the cause is gone");
    is(($listener->messages(1))[0]{payload}, $text, "$name: and the delivery");
    return;
}

sub standby_down { $standby->node->stop('immediate'); return; }
sub standby_up { $standby->node->start; return; }
sub confirmer_pid { return $s->sql("SELECT pid FROM fleetlog.stat_worker WHERE kind = 'confirmer'"); }

must_wait('standby stopped', \&standby_down, \&standby_up);
must_wait('names emptied',
    sub { standby_down(); $s->set_conf(synchronous_standby_names => ''); $s->wait_for('SHOW synchronous_standby_names', ''); },
    sub { $s->set_conf(%names); standby_up(); });
must_wait('names emptied while it waits',
    sub { standby_down(); },
    sub {
        $s->set_conf(synchronous_standby_names => '');
        $s->wait_for('SHOW synchronous_standby_names', '');
        ok($safe->quiet(1), 'names emptied while it waits: still no PUBACK');
        $s->set_conf(%names);
        standby_up();
    });
must_wait('confirmer cancelled',
    sub { standby_down(); },
    sub {
        my $pid = confirmer_pid();
        $s->sql("SELECT pg_cancel_backend($pid)");
        ok($safe->quiet(1), 'confirmer cancelled: still no PUBACK');
        standby_up();
    });
must_wait('confirmer terminated',
    sub { standby_down(); },
    sub {
        my $pid = confirmer_pid();
        $s->sql("SELECT pg_terminate_backend($pid)");
        $s->wait_for("SELECT count(*) = 1 FROM fleetlog.stat_worker WHERE kind = 'confirmer' AND pid IS NOT NULL AND pid <> $pid");
        ok($safe->quiet(1), 'confirmer terminated: still no PUBACK');
        standby_up();
    });
must_wait('synchronous_commit = local',
    sub { standby_down(); $s->set_conf(%names, synchronous_commit => 'local'); $s->wait_for('SHOW synchronous_commit', 'local'); },
    sub { standby_up(); });
is($safe->publish_acked('acme/d1/t', 'local setting'), 0, 'synchronous_commit = local does not stop confirmation either');
$s->set_conf(%names);

# What was committed but not confirmed before a restart is shown again only when it is confirmed.
standby_down();
$safe->publish('acme/d1/t', 'over the restart', qos => 1);
is($local->publish_acked('acme/d2/t', 'before the restart'), 0, 'local goes on');
$s->wait_for("SELECT count(*) = 1 FROM safe WHERE fleetlog.text(payload) = 'over the restart'");
# An acknowledgement on the local stream says that WAL is flushed up to here.
is($local->publish_acked('acme/d2/t', 'behind it'), 0, 'local goes on behind it');
$s->kill9_and_start;
my $tail = $s->sql("SELECT fleetlog.tail('safe', 0)");
my $rows = $s->sql('SELECT count(*) FROM safe');
cmp_ok($tail, '<', $rows, 'after the restart the unconfirmed record lies beyond the tail');
standby_up();
$s->wait_for("SELECT fleetlog.tail('safe', 0) = (SELECT count(*) FROM safe)");
pass('once confirmed, the tail reaches it');
is($s->density_faults('safe'), '', 'offsets of the quorum stream are dense');
is($s->crashes, '', 'no crash');
$standby->node->stop;
$s->node->stop;
done_testing();
