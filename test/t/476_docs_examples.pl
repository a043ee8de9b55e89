# docs/watch.md shows sessions of psql: each statement is run here, in order, and must print what the page says.
use strict;
use warnings;
use Test::More;
use IPC::Run ();
use FleetlogTest;

my $page = ($ENV{FLEETLOG_SOURCE} // '.') . '/docs/watch.md';
my @examples;
my $inside = 0;
for my $line (split /\n/, PostgreSQL::Test::Utils::slurp_file($page))
{
    if ($line =~ /^```/) { $inside = $line eq '```console' }
    elsif (!$inside) { next }
    elsif ($line =~ /^fleetlog=# (.*)/) { push @examples, { sql => $1, expected => '' } }
    elsif ($line =~ /^fleetlog-# (.*)/) { $examples[-1]{sql} .= "\n$1" }
    else { $examples[-1]{expected} .= "$line\n" }
}
cmp_ok(scalar @examples, '>=', 10, 'the page has examples: ' . @examples);

my $s = FleetlogTest->new('docs', no_wait => 1, conf => "fleetlog.mqtt_listen = ''\n");
$s->sql(<<'SQL');
SELECT fleetlog.create_stream('readings', shards => 2);
SELECT fleetlog.append('readings', 'plant/pump-1/rpm', '1450', shard => 0), fleetlog.append('readings', 'plant/pump-1/rpm', '1460', shard => 0),
    fleetlog.append('readings', 'plant/fan-2/rpm', '900', shard => 1);
SQL
my $script = join '', map { "\\echo \@\@\n$_->{sql}\n" } @examples;
my ($out, $err) = ('', '');
IPC::Run::run([ 'psql', '-X', '-d', $s->node->connstr('fleetlog') ], '<', \$script, '>', \$out, '2>', \$err);
is($err, '', 'no example fails');
my (undef, @printed) = split /^@@\n/m, $out, -1;
is(scalar @printed, scalar @examples, 'each was run');
is($printed[$_], $examples[$_]{expected}, $examples[$_]{sql}) for 0 .. $#examples;

# A page for those who look on.
{
    my ($watched, $errors) = ('', '');
    my $sql = "SELECT ts, key, fleetlog.text(payload) FROM fleetlog.take('me', 'readings', wait => '10 s') \\watch 0.1\n";
    like(PostgreSQL::Test::Utils::slurp_file($page), qr/\Q\watch 0.1\E/, 'the page tells of \watch');
    my $run = IPC::Run::start([ 'psql', '-Xq', '-d', $s->node->connstr('fleetlog') ], '<', \$sql, '>', \$watched, '2>', \$errors, IPC::Run::timeout($FleetlogTest::TIMEOUT));
    for my $text ('1470', '1480')
    {
        $s->sql("SELECT fleetlog.append('readings', 'plant/pump-1/rpm', '$text')");
        $run->pump until $watched =~ /\| $text$/m;
        pass("psql prints $text while it watches");
    }
    $run->kill_kill(grace => 1);
}
is($s->crashes, '', 'no crash');
$s->node->stop;
done_testing();
