# L1, L12: recovery to a point in the middle of one large append, between two of its WAL records: nothing of it is
# seen, what was before is there, and offsets go on.
use strict;
use warnings;
use Test::More;
use FleetlogTest;

my $archive = PostgreSQL::Test::Utils::tempdir();
my $s = FleetlogTest->new('timeline', no_wait => 1, conf => "archive_mode = on\narchive_command = 'cp %p $archive/%f'\n");
plan skip_all => 'pg_walinspect is not there' if $s->sql("SELECT count(*) FROM pg_available_extensions WHERE name = 'pg_walinspect'") eq '0';
$s->sql("CREATE EXTENSION pg_walinspect; SELECT fleetlog.create_stream('plain', compression => 'none')");
$s->sql("SELECT count(fleetlog.append('plain', 'k', convert_to('before ' || n, 'UTF8'))) FROM generate_series(1, 100) n");
$s->node->backup('base');
my $from = $s->sql('SELECT pg_current_wal_insert_lsn()');
$s->sql("SELECT fleetlog.append('plain', 'big', decode((SELECT string_agg(md5(i::text), '') FROM generate_series(1, 60000) i), 'hex'))");
$s->sql("SELECT fleetlog.append('plain', 'k', 'behind')");
my $to = $s->sql('SELECT pg_current_wal_flush_lsn()');
my @parts = split /\n/, $s->sql("SELECT start_lsn, record_type FROM pg_get_wal_records_info('$from', '$to') WHERE resource_manager = 'fleetlog' ORDER BY start_lsn");
my @cont = map { /^(\S+)\|CONT/ ? $1 : () } @parts;
cmp_ok(scalar @cont, '>=', 3, 'the large append has several records: ' . join ' ', map { s/.*\|//r } @parts);
my ($span) = map { /^(\S+)\|SPAN/ ? $1 : () } @parts;
ok($span, 'the one with its head comes last');
my $file = $s->sql('SELECT pg_walfile_name(pg_switch_wal())');
FleetlogTest::wait_until(sub { -e "$archive/$file" && -s _ == 16 * 1024 * 1024 }, "$file to be archived");
my $rows = $s->sql("SELECT count(*), md5(string_agg(p::text, '' ORDER BY log_offset)) FROM plain p WHERE log_offset < 100");

# Stop behind a part, and behind the head, whose transaction is then not committed.
for my $target ([ 'between two parts', $cont[1] ], [ 'behind the last part', $span ])
{
    my ($name, $lsn) = @$target;
    my $node = PostgreSQL::Test::Cluster->new('at_' . $lsn =~ s/\W/_/gr);
    $node->init_from_backup($s->node, 'base');
    $node->append_conf('postgresql.conf', "archive_mode = off\nfleetlog.mqtt_listen = ''\nrestore_command = 'cp $archive/%f %p'\n"
        . "recovery_target_lsn = '$lsn'\nrecovery_target_inclusive = on\nrecovery_target_action = promote\n");
    $node->set_recovery_mode;
    $node->start;
    my $at = bless { node => $node, mqtt => 0 }, 'FleetlogTest';
    $at->wait_for('SELECT NOT pg_is_in_recovery()', 't', 'the end of recovery');
    is($at->sql("SELECT count(*), md5(string_agg(p::text, '' ORDER BY log_offset)) FROM plain p"), $rows, "$name: what was before, and no more");
    is($at->sql("SELECT fleetlog.tail('plain', 0)"), 100, "$name: the tail");
    is($at->sql("SELECT (fleetlog.append('plain', 'k', 'another history')).log_offset"), 100, "$name: offsets go on");
    is($at->sql('SELECT count(*), max(log_offset) FROM plain'), '101|100', "$name: and are read back");
    $at->sql('VACUUM (FREEZE) plain');
    is($at->density_faults('plain') . $at->crashes, '', "$name: dense, no crash");
    $node->stop;
}
$s->node->stop;
done_testing();
