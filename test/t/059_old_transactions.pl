# L3, L12: batches outlive the commit log's memory of their transactions.  What was committed is still seen, what was rolled
# back is still gone, whether or not anybody had marked it before, and offsets go on where they were.
use strict;
use warnings;
use Test::More;
use FleetlogTest;

my $s = FleetlogTest->new('old', no_wait => 1, conf => "autovacuum = off\nfleetlog.workers = 0\n");
my $all = sub { join ' ', map { "$_:" . $s->sql("SELECT count(*) || '/' || coalesce(max(log_offset), -1) || '/' || coalesce(md5(string_agg(t::text, '|' ORDER BY log_offset)), '') FROM $_ t") } qw(busy ends gone large idle) };

$s->sql("SELECT fleetlog.create_stream(n, compression => 'none') FROM unnest(ARRAY['busy', 'ends', 'gone', 'large', 'idle']) n");
# Rolled back in front of what was kept, at the end, without anything kept, and larger than a page.
for my $i (1 .. 30)
{
    $s->sql("BEGIN; SELECT count(fleetlog.append('busy', 'k', convert_to(repeat('x', 500), 'UTF8'))) FROM generate_series(1, 20); " . ($i % 3 ? 'COMMIT' : 'ROLLBACK'));
}
$s->sql("SELECT fleetlog.append('ends', 'k', 'kept'); BEGIN; SELECT count(fleetlog.append('ends', 'k', convert_to(repeat('y', 3000), 'UTF8'))) FROM generate_series(1, 50); ROLLBACK");
$s->sql("BEGIN; SELECT fleetlog.append('gone', 'k', 'x'); ROLLBACK");
$s->sql("SELECT fleetlog.append('large', 'k', convert_to(repeat('z', 400000), 'UTF8')); BEGIN; SELECT fleetlog.append('large', 'k', convert_to(repeat('z', 400000), 'UTF8')); ROLLBACK");
$s->sql("SELECT fleetlog.append('idle', 'k', 'one')");
my $rows = $all->();

# Three million transactions later, without waiting for them.
$s->node->stop;
PostgreSQL::Test::Utils::system_or_bail('pg_resetwal', '-x', 3 * 1_048_576 + 1000, $s->node->data_dir);
open my $f, '>:raw', $s->node->data_dir . '/pg_xact/0003' or die $!;
print $f "\0" x 262_144;
close $f;
$s->node->start;
is($all->(), $rows, 'the same rows when the next transaction is far away');
$s->sql('ALTER DATABASE template0 ALLOW_CONNECTIONS true');
for my $db (qw(template0 template1 postgres fleetlog))
{
    $s->node->safe_psql($db, 'VACUUM (FREEZE)');
}
is($s->sql("SELECT count(*) FROM pg_ls_dir('pg_xact') f WHERE f = '0000'"), '0', 'the commit log has forgotten them');
is($s->sql("SELECT count(*) FROM pg_class WHERE relkind = 'r' AND age(relfrozenxid) > 1000000"), '0', 'no table holds it back, idle streams least of all');
is($all->(), $rows, 'the same rows');
is($s->sql("SELECT count(*) FROM fleetlog.read('busy', 0, 0, 100000)"), 400, 'read() too');
$s->node->restart;
is($all->(), $rows, 'the same rows after a restart');
for my $stream (qw(busy ends gone large idle))
{
    my $next = $s->sql("SELECT fleetlog.tail('$stream', 0)");
    is($s->sql("SELECT (fleetlog.append('$stream', 'k', 'new')).log_offset"), $next, "$stream goes on");
    is($s->density_faults($stream), '', 'dense');
}
is($s->sql("SELECT fleetlog.tail('gone', 0)"), 1, 'what was never kept begins at 0');
is($s->crashes, '', 'no crash');
done_testing();
