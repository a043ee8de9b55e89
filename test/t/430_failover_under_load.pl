# L5, L12, H1: the primary of a quorum stream dies under load and its synchronous standby is promoted: nothing that was acknowledged or
# delivered is lost, no offset is missing or used twice.  The old primary, which is ahead by what nobody confirmed, is brought back by
# pg_rewind, follows, and is equal byte for byte; checksums of both are right.
use strict;
use warnings;
use Test::More;
use FleetlogTest;
use FleetlogTest::Truth;
use PostgreSQL::Test::Utils;

my $s = FleetlogTest->new('first', initdb => ['--data-checksums'], conf => "wal_keep_size = 256MB\nwal_consistency_checking = 'fleetlog'\n");
my $standby = $s->new_standby('second');
$standby->node->start;
$s->set_conf(synchronous_standby_names => 'FIRST 1 (second)');
$s->wait_for("SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'", 't', 'the synchronous standby');
$s->fleet(shards => 2, devices => 4, durability => 'quorum');
$s->sql('CREATE TABLE both_written (word text)');
my $truth = FleetlogTest::Truth->new($s, devices => 4);
$truth->connect_all('first');
$truth->pump($FleetlogTest::TIMEOUT, sub { $truth->acked > 1000 });
cmp_ok($truth->acked, '>', 1000, 'acknowledgements flow');

# The standby's network goes first, so that the old primary has records that nobody confirmed.
my $receiver = $standby->sql("SELECT pid FROM pg_stat_activity WHERE backend_type = 'walreceiver'");
kill 'STOP', $receiver;
$truth->pump(1);
$s->kill9;
kill 'CONT', $receiver;
$truth->cut_off;
my $acked = $truth->acked;
$standby->node->promote;
$standby->sql('ALTER SYSTEM SET synchronous_standby_names = \'\'');
$standby->wait_for_mqtt;
$truth->{server} = $standby;
# A quorum stream shows and takes nothing without standbys, and the new primary has none yet.
$standby->sql("SELECT fleetlog.alter_stream('telemetry', durability => 'local')");
is(join("\n", $truth->check), '', "after promotion: all of $acked acknowledged are there");

$truth->connect_all('second');
$truth->pump($FleetlogTest::TIMEOUT, sub { $truth->acked > $acked + 500 });
cmp_ok($truth->acked, '>', $acked + 500, 'the new primary acknowledges');
is($truth->drain, 0, 'all of it');
$truth->cut_off;
is(join("\n", $truth->check), '', 'and keeps it behind what the old one wrote');

# The old primary.
my $old = $s->node;
my ($out, $err) = ('', '');
$s->wait_until_gone($_) for grep { defined } $old->{_pid};
# Until its first checkpoint after the promotion the new primary's control file names the old timeline, and pg_rewind
# would find nothing to do.
$standby->sql('CHECKPOINT');
copy_conf('postgresql.conf', 'out');
FleetlogTest::wait_until(sub {
    ($out, $err) = ('', '');
    return IPC::Run::run([ 'pg_rewind', '--no-sync', '--target-pgdata', $old->data_dir, '--source-server', $standby->node->connstr('postgres') ],
        '>', \$out, '2>', \$err) || $err !~ /lock file|shared memory/; }, 'pg_rewind to find the old primary stopped', 60);
is($err =~ /Done!/ ? '' : $err, '', 'pg_rewind succeeds');
copy_conf('out', 'postgresql.conf');
$old->enable_streaming($standby->node);
$old->append_conf('postgresql.conf', "synchronous_standby_names = ''\n");
unlink $old->data_dir . '/test.conf';
$old->{_pid} = undef;
$old->start;
is(join("\n", $truth->check_standby($s, pages => 1)), '', "the old primary follows and is equal: $truth->{pages_compared} pages");
is($s->crashes . $standby->crashes, '', 'no crash, no inconsistent page');
$old->stop;
$standby->node->stop;
for my $node ($old, $standby->node)
{
    ok(IPC::Run::run([ 'pg_checksums', '--check', '-D', $node->data_dir ], '>', \$out, '2>', \$err), $node->name . ': checksums are right') or diag($out . $err);
}
done_testing();

# pg_rewind overwrites the configuration with that of its source, port included.
sub copy_conf
{
    my ($from, $to) = map { $_ eq 'out' ? $s->node->basedir . '/kept.conf' : $s->node->data_dir . "/$_" } @_;
    PostgreSQL::Test::Utils::system_or_bail('cp', $from, $to);
    return;
}
