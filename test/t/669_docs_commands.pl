# docs/commands.md and README.md: what they show of commands is run here as it stands, by a shell, psql and Debian's clients
# of Mosquitto, against a server at the usual names; "…" stands for the id of the last command.
use strict;
use warnings;
use Test::More;
use IPC::Run ();
use FleetlogTest;

plan skip_all => 'mosquitto-clients is not installed' unless grep { -x "$_/mosquitto_sub" } split /:/, $ENV{PATH};

my $source = $ENV{FLEETLOG_SOURCE} // '.';
my $page = PostgreSQL::Test::Utils::slurp_file("$source/docs/commands.md");
my $readme = PostgreSQL::Test::Utils::slurp_file("$source/README.md");
my $s = FleetlogTest->new('docs');
# The tools of the page find this server by their defaults.
my $preamble = 'set -eu; export PGHOST=' . $s->node->host . ' PGPORT=' . $s->node->port . ' PGOPTIONS=; psql() { command psql -X -v ON_ERROR_STOP=1 "$@"; };'
  . ' mosquitto_sub() { command mosquitto_sub -h 127.0.0.1 -p ' . $s->port . ' -W 60 "$@"; }; mosquitto_pub() { command mosquitto_pub -h 127.0.0.1 -p ' . $s->port . ' "$@"; };' . "\n";

sub shell
{
    my ($script, $what) = @_;
    my ($out, $err) = ('', '');
    my $ok = IPC::Run::run([ 'bash', '-c', $preamble . $script ], '<', '/dev/null', '>', \$out, '2>', \$err, IPC::Run::timeout($FleetlogTest::TIMEOUT));
    ok($ok, $what) or diag("$out$err");
    return $out;
}

sub last_id { return $s->sql('SELECT id FROM fleetlog.command ORDER BY number DESC LIMIT 1'); }

# ---- the session ----

my ($session) = $page =~ /^## A session to paste\n```sh\n(.*?)^```/ms;
my $out = shell($session, 'the session of the page runs');
like($out, qr/^\{"id":"[0-9a-f-]{36}","name":"open",.*"payload":\{"valve": 7\}\}$/m, 'it prints the command as the device gets it');
like($out, qr/^issued_by +\| \w+\nstate +\| succeeded\nsent_at +\| 2.*\ndelivered_at +\| 2.*\nacknowledged_at \| 2.*\nanswered_at +\| 2.*\nanswer +\| \{.*"angle": 90.*\}\ndetail +\| open$/m,
    'one row: who sent it, when it left, when the device had it, what it said');
like($out, qr/\| pending .*\n.*\| sent .*\n(?=(?:.*\n){0,2}.*\| delivered )(?=(?:.*\n){0,2}.*\| acknowledged )(?:.*\n){0,2}.*\| succeeded +\| f +\| open\n/, 'its history; the receipt and the answers may come in any order');
like($out, qr/^ acme +\| succeeded \| +1 \| +0$/m, 'how many are in which state');

# ---- all other statements of the page, blocks and inline, in their order ----

my $number = 0;
(my $rest = $page) =~ s/^## A session to paste.*?^## /## /ms;
$s->sql(q{CREATE ROLE role; SELECT fleetlog.alter_device('acme/d-42', firmware_version => '6')});
while ($rest =~ /^```sql\n(.*?)^```|`(SELECT [^`]+)`/gms)
{
    my $sql = $1 // $2;
    my $last = last_id();

    $sql =~ s/…/$last/g;
    $number++;
    is($s->sql_error($sql), undef, 'runs: ' . substr($sql =~ s/\s+/ /gr, 0, 100));
}
cmp_ok($number, '>=', 4, "statements of the page: $number");
is($s->sql("SELECT state, targets FROM fleetlog.job WHERE name = 'firmware-7'"), 'running|1', "the page's job is there");
$s->wait_for("SELECT count(*) FROM fleetlog.command WHERE job = 'firmware-7' AND state = 'sent'", 1);
# The page's first command may have been sent before the page cancelled it.  Who leaves with messages unread may take his
# acknowledgements with him, so all are read.
my $waiting = $s->sql("SELECT count(*) FROM fleetlog.command WHERE state = 'sent'");
my $out2 = shell("mosquitto_sub -u acme/d-42 -P secret -q 1 -c -i d-42 -t 'acme/cmd/d-42/req/+' -C $waiting", 'it reaches its device');
like($out2, qr/"name":"update".*\{"version": 7\}/, 'as it says');

# The other forms of a result.
my ($property) = $page =~ /`mosquitto_pub … (-D [^`]+)`/;
my $id = last_id();
shell("mosquitto_pub -V 5 -u acme/d-42 -P secret -q 1 -n -t acme/cmd/d-42/res/$id $property", 'a result as a property');
$s->wait_for("SELECT state FROM fleetlog.job WHERE name = 'firmware-7'", 'finished');
my ($keep) = $page =~ /`(alter_stream\('fleetlog.command_log', retention_age => …\))`/;
is($s->sql_error('SELECT fleetlog.' . ($keep =~ s/…/'9 days'/r)), undef, 'keeping the log of commands for longer');
my ($who) = $page =~ /`(allow_commands)\(tenant, role\)`/;
is($s->sql_error("SELECT fleetlog.$who('acme', 'role'); SET ROLE role; SELECT fleetlog.send_command('d-42', 'ping', 'null')"), undef, 'a role that was allowed to');

# ---- README.md ----

my ($commands) = $readme =~ /^Commands go the other way.*?\n\n(.*?)^Decisions are recorded/ms;
my @lines = grep { /\S/ } split /\n/, $commands;
is(scalar @lines, 4, 'README.md: listen, send, answer, look');
s/^    (?:\$ )?//, s/ +# .*$// for @lines;
$s->sql(q{SELECT fleetlog.create_tenant('plant', 'plant/'), fleetlog.create_device('pump-1', 'plant', password => 'secret')});
shell("$lines[0] -E", 'README.md: the device listens');
is($s->sql_error($lines[1]), undef, 'README.md: a command');
like(shell("$lines[0] -C 1", 'README.md: it comes'), qr/^\{"id":".*","name":"open",.*"payload":\{"valve": 7\}\}$/, 'README.md: as it says there');
$id = last_id();
shell($lines[2] =~ s/…/$id/r, 'README.md: the answer');
$s->wait_for("SELECT state FROM fleetlog.command WHERE id = '$id'", 'succeeded');
like($s->sql($lines[3]), qr/^succeeded\|/, 'README.md: the row');
is($s->crashes, '', 'no crash');
$s->node->stop;
done_testing();
