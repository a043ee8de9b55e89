# L13: pg_recvlogical with test_decoding shows appended records as INSERTs: savepoint rollback, large transactions with
# a tiny logical_decoding_work_mem, another database's slot, a tablespace, aborts that reuse offsets.
use strict;
use warnings;
use Test::More;
use IPC::Run ();
use FleetlogTest;

my $s = FleetlogTest->new('decode', conf => "logical_decoding_work_mem = 64kB\n");
my $node = $s->node;
$s->fleet(shards => 1, devices => 1);
$node->safe_psql('postgres', 'CREATE DATABASE other');
$s->sql("SELECT pg_create_logical_replication_slot('ours', 'test_decoding')");
$node->safe_psql('other', "SELECT pg_create_logical_replication_slot('theirs', 'test_decoding')");

# The offsets of the INSERTs that pg_recvlogical prints up to now, and the number of lines that are neither those nor BEGIN and COMMIT.
sub received
{
    my $end = $s->sql('SELECT pg_current_wal_flush_lsn()');
    my $out = $node->pg_recvlogical_upto('fleetlog', 'ours', $end, $FleetlogTest::TIMEOUT, 'include-xids' => 0);
    my (@inserts, @other);
    for my $line (split /\n/, $out)
    {
        if ($line =~ /^table public\.\S+: INSERT: shard\[integer\]:(\d+) log_offset\[bigint\]:(\d+) /) { push @inserts, $line; }
        elsif ($line =~ /^table fleetlog\./ || $line =~ /^(BEGIN|COMMIT)/ || $line eq '') { next; }
        else { push @other, $line; }
    }
    return (\@inserts, \@other);
}

# Their offsets in order of arrival, as ranges.
sub offsets
{
    my ($inserts) = @_;
    my @ranges;

    for my $n (map { /log_offset\[bigint\]:(\d+)/ ? $1 : die $_ } @$inserts)
    {
        if (@ranges && $ranges[-1][1] == $n - 1) { $ranges[-1][1] = $n; }
        else { push @ranges, [ $n, $n ]; }
    }
    return join ',', map { "$_->[0]-$_->[1]" } @ranges;
}

my $device = $s->device('d1');
is($device->publish_acked('acme/d1/t', 'from the device'), 0, 'published');
$s->sql("SELECT fleetlog.append('telemetry', 'key', 'from sql', '[[\"h\",\"v\"]]')");
my ($in, $other) = received();
is(scalar @$other, 0, 'only INSERTs') or diag(join "\n", @$other);
is(offsets($in), '0-1', 'one INSERT a record, in order');
like($in->[0], qr/table public\.telemetry\w*: INSERT/, 'a table of the stream is named');
like($in->[0], qr/tenant\[text\]:'acme' device\[text\]:'d1' key\[text\]:'acme\/d1\/t'/, 'columns as SELECT shows them');
like($in->[0], qr/payload\[bytea\]:'\\x66726f6d2074686520646576696365'/, 'payload as bytes');
like($in->[1], qr/device\[text\]:null key\[text\]:'key'/, 'NULL where SELECT shows NULL');

# Savepoints, aborts.
$s->sql(<<'SQL');
BEGIN; SELECT fleetlog.append('telemetry', 'a', 'kept 2');
SAVEPOINT x; SELECT fleetlog.append('telemetry', 'a', 'rolled back'); ROLLBACK TO x;
SELECT fleetlog.append('telemetry', 'a', 'kept 3');
SAVEPOINT y; SELECT fleetlog.append('telemetry', 'a', 'kept 4'); RELEASE y; COMMIT;
BEGIN; SELECT count(fleetlog.append('telemetry', 'a', 'aborted')) FROM generate_series(1, 10); ROLLBACK;
SELECT fleetlog.append('telemetry', 'a', 'kept 5');
SQL
($in, $other) = received();
is(offsets($in), '2-5', 'what was rolled back is not decoded, offsets have no hole');
is(scalar(grep { /kept/ || /6b657074/ } @$in), 4, 'the right ones');
is(scalar @$other, 0, 'nothing else');

# Larger than the memory for decoding, so that it is spilled to disk, with a subtransaction rolled back inside.
$s->sql(<<'SQL');
BEGIN;
SELECT count(fleetlog.append('telemetry', 'big', decode(repeat('ab', 500), 'hex'))) FROM generate_series(1, 3000);
SAVEPOINT z; SELECT count(fleetlog.append('telemetry', 'gone', decode(repeat('cd', 500), 'hex'))) FROM generate_series(1, 2000); ROLLBACK TO z;
SELECT count(fleetlog.append('telemetry', 'big', decode(repeat('ef', 500), 'hex'))) FROM generate_series(1, 1000);
COMMIT;
SQL
($in, $other) = received();
is(scalar @$in, 4000, 'a spilled transaction is whole');
is(offsets($in), '6-4005', 'and in order');
$s->wait_for("SELECT spill_txns >= 1 FROM pg_stat_replication_slots WHERE slot_name = 'ours'", 't', 'the spilled transaction to be counted');
pass('it was spilled indeed');

# Rows as decoded equal rows as selected.
is(join("\n", map { /payload\[bytea\]:'([^']*)'/ ? $1 : 'none' } @$in), $s->sql('SELECT payload FROM telemetry WHERE log_offset BETWEEN 6 AND 4005 ORDER BY log_offset'),
    'payloads are equal byte for byte');

# A tablespace, after SET TABLESPACE moved the segments.
my $space = PostgreSQL::Test::Utils::tempdir();
$s->sql("CREATE TABLESPACE elsewhere LOCATION '$space'");
$s->sql(<<'SQL');
DO $$ DECLARE leaf regclass; BEGIN
    FOR leaf IN SELECT relid FROM pg_partition_tree('telemetry') WHERE isleaf LOOP
        EXECUTE format('ALTER TABLE %s SET TABLESPACE elsewhere', leaf);
    END LOOP; END $$;
SQL
$s->sql("SELECT fleetlog.append('telemetry', 'a', 'elsewhere')");
($in, $other) = received();
is(offsets($in), '4006-4006', 'a moved segment is not decoded again, a new record in it is');
is($s->sql('SELECT count(*) FROM telemetry'), '4007', 'and its rows are all there');

# The slot of another database decodes the same WAL and shows nothing of it.
my $theirs = $node->safe_psql('other', "CREATE TABLE t(i int); INSERT INTO t VALUES (1); SELECT data FROM pg_logical_slot_get_changes('theirs', NULL, NULL) WHERE data LIKE 'table%'");
is($theirs, "table public.t: INSERT: i[integer]:1", q(another database's slot sees its own rows only));

# Over a crash nothing is lost.  The slot's position of before may be gone, then older records come once more.
$s->sql("SELECT count(fleetlog.append('telemetry', 'a', 'before the crash')) FROM generate_series(1, 10)");
$s->kill9_and_start;
($in, $other) = received();
like(offsets($in), qr/^\d+-4016$/, 'decoded after kill -9, without a hole');
cmp_ok(scalar @$in, '>=', 10, 'with all of the last records');
is($s->crashes, '', 'no crash');
$s->sql("SELECT pg_drop_replication_slot('ours')");
$node->safe_psql('other', "SELECT pg_drop_replication_slot('theirs')");
$node->stop;
done_testing();
