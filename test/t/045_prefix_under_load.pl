# L3: many writers that commit, abort and use savepoints at random, and readers: every snapshot any reader takes is a
# prefix of each shard (dense from 0), nothing that was seen changes, and time never steps back.
use strict;
use warnings;
use Test::More;
use IPC::Run ();
use FleetlogTest;

my $s = FleetlogTest->new('prefix');
$s->fleet(shards => 2, devices => 2);
my $dir = PostgreSQL::Test::Utils::tempdir();

sub script
{
    my ($name, $text) = @_;
    open my $f, '>', "$dir/$name" or die $!;
    print $f $text;
    close $f;
    return "$dir/$name";
}

my $writer = script('writer', <<'SQL');
\set fate random(1, 10)
\set n random(1, 20)
\set shard random(0, 1)
BEGIN;
SELECT count(fleetlog.append('telemetry', 'w', convert_to(repeat('x', g * 10), 'UTF8'), shard => :shard)) FROM generate_series(1, :n) g;
SAVEPOINT s;
SELECT count(fleetlog.append('telemetry', 'w', 'in a savepoint', shard => :shard)) FROM generate_series(1, :n) g;
\if :fate <= 3
ROLLBACK TO s;
\else
RELEASE s;
\endif
SELECT (fleetlog.append('telemetry', 'w', 'last', shard => :shard)).log_offset;
\if :fate >= 8
ROLLBACK;
\else
COMMIT;
\endif
SQL
# A violation raises an error, which pgbench counts as a failure of its client.
my $reader = script('reader', <<'SQL');
BEGIN ISOLATION LEVEL REPEATABLE READ;
SELECT 1 / (CASE WHEN bool_and(n = last + 1 AND first = 0 AND back = 0) IS NOT FALSE THEN 1 ELSE 0 END) AS is_prefix
  FROM (SELECT count(*) AS n, max(log_offset) AS last, min(log_offset) AS first, count(*) FILTER (WHERE ts < before) AS back
          FROM (SELECT shard, log_offset, ts, lag(ts) OVER (PARTITION BY shard ORDER BY log_offset) AS before FROM telemetry) t GROUP BY shard) x;
SELECT coalesce(max(log_offset), -1) AS seen FROM telemetry WHERE shard = 0 \gset
SELECT 1 / (CASE WHEN coalesce(max(log_offset), -1) = :seen AND count(*) = :seen + 1 THEN 1 ELSE 0 END) AS unchanged FROM telemetry WHERE shard = 0;
COMMIT;
SELECT 1 / (CASE WHEN count(*) = :seen + 1 THEN 1 ELSE 0 END) AS nothing_new_below FROM telemetry WHERE shard = 0 AND log_offset <= :seen;
SQL

# pgbench of server 15 takes no connection string; it reads the variables.
$ENV{PGHOST} = $s->node->host;
$ENV{PGPORT} = $s->node->port;
$ENV{PGDATABASE} = 'fleetlog';

sub bench
{
    my ($file, $clients, $seconds) = @_;
    my %h = (out => '', err => '');
    $h{run} = IPC::Run::start([ 'pgbench', '-n', '-c', $clients, '-j', 1, '-T', $seconds, '-f', $file ],
        '>', \$h{out}, '2>', \$h{err}, IPC::Run::timeout($FleetlogTest::TIMEOUT));
    return \%h;
}

my $seconds = $ENV{FLEETLOG_ROUNDS} && $ENV{FLEETLOG_ROUNDS} > 3 ? 60 : 8;
# Devices append through the appender meanwhile.  On a machine that is too slow for some of them, all go on.
my $device = $s->device('d1');
my ($acked, $refused, %done) = (0, 0, writers => 0, readers => 0);
my $give_up = time + $FleetlogTest::TIMEOUT;
do
{
    my %bench = (writers => bench($writer, 4, $seconds), readers => bench($reader, 2, $seconds));
    my $end = time + $seconds;
    while (time < $end) { $device->publish_acked('acme/d1/t', 'from a device') < 0x80 ? $acked++ : $refused++; }
    for my $name (sort keys %bench)
    {
        my $h = $bench{$name};
        $h->{run}->finish;
        is($h->{run}->result(0), 0, "$name: no error") or diag(substr $h->{err}, -2000);
        unlike($h->{err}, qr/aborted|division by zero|ERROR/, "$name: nobody was aborted");
        $done{$name} += $h->{out} =~ /transactions actually processed: (\d+)/ ? $1 : 0;
    }
} until ($done{writers} > 10 && $done{readers} > 10 && $acked > 0) || time > $give_up;
cmp_ok($done{$_}, '>', 10, "$_: $done{$_} transactions") for sort keys %done;
cmp_ok($acked, '>', 0, "a device was served meanwhile ($acked acknowledged, $refused refused)");
is($s->sql("SELECT count(*) FROM telemetry WHERE device = 'd1'"), $acked, 'each acknowledged reading is there once');
is($s->density_faults, '', 'offsets dense, time in order at the end');
is($s->crashes, '', 'no crash');
$s->node->stop;
done_testing();
