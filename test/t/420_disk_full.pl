# O4: a full disk.  WAL volume filling: the reserve refuses publishes before PostgreSQL would stop.  Data volume full: refusals and no false
# acknowledgement.  WAL volume full without a reserve: PostgreSQL stops, and nothing acknowledged is lost.  Each time
# everything goes on by itself when there is space again.
use strict;
use warnings;
use Test::More;
use FleetlogTest;
use FleetlogTest::Powercut;
use FleetlogTest::Truth;

my $MB = 1024 * 1024;
my $s = FleetlogTest->new('full', no_start => 1, initdb => ['--wal-segsize=1'], conf => <<'CONF');
max_wal_size = 1GB
checkpoint_timeout = 1h
restart_after_crash = on
CONF
$s->start_and_install;
$s->fleet(devices => 4);
$s->sql('CREATE TABLE both_written (word text)');
$s->node->stop;
my $disk = FleetlogTest::Powercut->new($s);
$disk->set(skip_fsync => 1);
$s->set_conf('fleetlog.disk_reserve' => '8MB');
$disk->start;
my $truth = FleetlogTest::Truth->new($s, devices => 4, pad => 2000);
my $refused = sub { my $n = 0; $n += $_ for values %{ $truth->{reasons} // {} }; $n };

# All is well again: acknowledgements flow, and what was acknowledged is there.
sub recovered
{
    my ($what) = @_;
    my $before = $truth->acked;
    $truth->cut_off;
    $s->wait_for_mqtt;
    $truth->connect_all($what =~ s/\W/-/gr);
    $truth->pump($FleetlogTest::TIMEOUT, sub { $truth->acked > $before + 200 });
    cmp_ok($truth->acked, '>', $before + 200, "$what: acknowledgements flow again");
    $truth->cut_off;
    is(join("\n", $truth->check), '', "$what: nothing acknowledged is lost");
    return;
}

$truth->connect_all('reserve');
$truth->pump($FleetlogTest::TIMEOUT, sub { $truth->acked > 200 });
cmp_ok($truth->acked, '>', 200, 'at first all is well');

# The reserve.  The keeper, which looks once a turn, is held: who writes has to find it.
$s->stop_points('keeper_turn');
$s->wait_stopped_at('keeper_turn');
$disk->set(free_wal => 12 * $MB);
$s->sql("CREATE TABLE filler AS SELECT repeat(md5(i::text), 4) AS t FROM generate_series(1, 32000) i");
$truth->pump($FleetlogTest::TIMEOUT, sub { $refused->() > 20 });
cmp_ok($refused->(), '>', 20, 'WAL volume filling: publishes are refused');
is(join(',', sort keys %{ $truth->{reasons} }), '151', 'with 0x97, quota exceeded');
cmp_ok($disk->counters->{free_wal}, '>', 0, 'while there is still space');
is($disk->counters->{refused}, 0, 'so that no write ever failed');
like($s->sql_error("SELECT fleetlog.append('telemetry', 'k', 'x')"), qr/53100/, 'SQL is told the same');
$s->stop_points();
$s->wait_for("SELECT state LIKE 'disk reserve reached%' FROM fleetlog.stat_worker WHERE kind = 'keeper'", 't', 'the keeper to show it');
like($s->sql("SELECT string_agg(state, ' ') FROM fleetlog.stat_worker WHERE kind = 'keeper'"), qr/disk reserve reached/, 'a view says why');
is($s->sql('SELECT 1 + 1'), 2, 'the server goes on');
$disk->set(free_wal => -1);
$s->wait_for("SELECT count(*) FROM fleetlog.stat_worker WHERE kind = 'keeper' AND state = 'running'", '1', 'the keeper to see the space');
recovered('after the reserve');

# The data volume, with no reserve: the server itself meets the end of the disk.
$s->set_conf('fleetlog.disk_reserve' => 0);
$s->wait_for('SHOW fleetlog.disk_reserve', '0', 'the reload');
$truth->connect_all('data');
$disk->set(free_data => 0);
my $before = $refused->();
$truth->pump($FleetlogTest::TIMEOUT, sub { $refused->() > $before + 20 });
cmp_ok($refused->(), '>', $before + 20, 'data volume full: publishes are refused');
cmp_ok($disk->counters->{refused}, '>', 0, 'writes failed for want of space');
is($s->sql('SELECT 1 + 1'), 2, 'the server goes on');
my $err = $s->sql_error("SELECT count(fleetlog.append('telemetry', 'k', convert_to(md5(random()::text) || md5(random()::text), 'UTF8'))) FROM generate_series(1, 5000)");
like($err // 'no error', qr/53100/, 'SQL is told that the disk is full');
$disk->set(free_data => -1);
recovered('after the full data volume');
is($s->crashes, '', 'nothing crashed so far');

# The WAL volume, with no reserve: PostgreSQL cannot go on and says so with a PANIC.
$truth->connect_all('wal');
$disk->set(free_wal => 0);
$truth->pump($FleetlogTest::TIMEOUT, sub { $truth->all_closed });
ok($truth->all_closed, 'WAL volume full: the server stopped');
$truth->cut_off;
like(PostgreSQL::Test::Utils::slurp_file($s->node->logfile), qr/PANIC:.*No space left/, 'by PANIC, as PostgreSQL does');
$disk->set(free_wal => -1);
FleetlogTest::wait_until(sub {
    my ($rc) = $s->try_sql('SELECT 1');
    return 1 if $rc == 0;
    return 0 if kill 0, $s->node->{_pid};
    $s->node->{_pid} = undef;
    $disk->start;
    return 1; }, 'the server to be back', 60);
recovered('after the full WAL volume');
eval { $s->node->stop('immediate') };
done_testing();
