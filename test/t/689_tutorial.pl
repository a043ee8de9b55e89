# docs/tutorial-decisions.md: every command of the page is run, in its order, against an empty database, and must say what the
# page promises: a decision with its command, the chain of it, a replay without the model, what a shadow model would have done.
use strict;
use warnings;
use Test::More;
use IPC::Run ();
use FleetlogTest;

my $source = $ENV{FLEETLOG_SOURCE} // '.';
my $page = PostgreSQL::Test::Utils::slurp_file("$source/docs/tutorial-decisions.md");
my @blocks;
push @blocks, { kind => $1, text => $2 } while $page =~ /^```(\w+)\n(.*?)^```$/msg;
cmp_ok(scalar @blocks, '>=', 15, 'the page has commands: ' . @blocks);
is(join(',', sort keys %{ { map { $_->{kind} => 1 } @blocks } }), 'sh,sql', 'of the shell and of psql');
my $policy = PostgreSQL::Test::Utils::slurp_file("$source/docs/examples/valve_policy.sql");
is(scalar(grep { $_->{text} eq $policy } @blocks), 1, 'the policy of the page is that of docs/examples');

my $s = FleetlogTest->new('tutorial', no_extension => 1);

# A reader takes his time between two commands; here what is under way is waited for: readings that were read, answers that were
# decided about, commands that are over.
my $settle = <<'SH';
until [ "$(psql -XAtc "SELECT (SELECT sum(lag) = 0 FROM fleetlog.stat_loop) AND NOT EXISTS (SELECT FROM fleetlog.loop_request WHERE response_offset IS NOT NULL)
    AND NOT EXISTS (SELECT FROM fleetlog.command WHERE finished_at IS NULL OR delivered_at IS NULL)")" = t ]; do sleep 0.1; done
SH
my ($script, $looping) = ("set -e\n", 0);
for my $b (@blocks)
{
    $script .= $settle if $looping;
    $script .= "echo '\@\@'\n" . ($b->{kind} eq 'sh' ? $b->{text} : "psql -X -v ON_ERROR_STOP=1 <<'END OF SQL'\n$b->{text}END OF SQL\n");
    $looping = 1 if $b->{text} =~ /create_loop/;
    $looping = 0 if $b->{text} =~ /drop_loop/;
    # The front doors come when the extension is there.
    $script .= "until mosquitto_pub -p \$MQTT -u acme/press-7 -P 'press secret' -t acme/press-7/none -m x 2>/dev/null; do sleep 0.2; done\n" if $b->{text} =~ /CREATE EXTENSION/;
}
local $ENV{MQTT} = $s->{mqtt};
local $ENV{EXAMPLES} = "$source/docs/examples";
local $ENV{PGHOST} = $s->node->host;
local $ENV{PGPORT} = $s->node->port;
my ($out, $err) = ('', '');
my $ok = IPC::Run::run([ 'bash', '-c', $script ], '<', \undef, '>', \$out, '2>', \$err, IPC::Run::timeout($FleetlogTest::TIMEOUT));
ok($ok, 'every command of the page works') or diag($out);
is($err, '', 'and none complains');
my (undef, @said) = split /^@@\n/m, $out, -1;
is(scalar @said, scalar @blocks, 'each was run');
my %said = map { $blocks[$_]{text} => $said[$_] } 0 .. $#said;
sub said { my ($pattern) = @_; my ($text) = grep { /$pattern/ } keys %said; return $said{ $text // '' } // ''; }

like(said(qr/^SELECT valve_policy/), qr/"ask": \{"bar": 9\.3\}.*"kind": "close"/s, 'the policy by hand');
like(said(qr/next_request/), qr/^ valves \| running +\| +1 \| +1 \| +1 \| +0\n.*^\(valves_request,\d,0\) \d+ pressure \{"bar": ?3\.1\}\n/ms, 'a request waits');
like(said(qr/-> 'decisions' AS decisions FROM valves_decision/), qr/\[\{"kind": "leave"\}\]/, 'and its answer is decided about');
like(said(qr/model.py valves -d/), qr/^4 calls$/m, 'the model was asked once for each reading');
my @decided = said(qr/LEFT JOIN fleetlog.command/) =~ /\| +(\w+) +\| +(\w*) *\| +(\w*) *\| +(.*?) *$/mg;
is("@decided[0 .. $#decided]", 'decision command state said leave    leave    close close succeeded {"angle": 0} leave    open open succeeded {"angle": 90}', 'what was decided, commanded and done');
my $chain = said(qr/explain_decision/);
# A PUBACK may be known a moment after the answer that followed it.
is(join(' ', sort($chain =~ /^ (\w+) +\| \d/mg)), join(' ', map { ($_) x ($_ =~ /answer|delivery/ ? 4 : 2) } qw(answer command decision delivery reading request response)), 'why the valve closed, and opened');
like($chain, qr/^ reading .*^ request .*^ response .*^ decision .*^ command .*^ delivery .*^ answer .*^ reading .*^ request .*^ command /ms, 'step by step');
is(said(qr/SELECT verdict, count.*replay\('valves'\)/) =~ /^ same +\| +(\d+)\n\(1 row\)/m ? $1 : said(qr/replay\('valves'\)/), 5, 'replay decides all of it as it was, with the model stopped');
like(said(qr/careful_policy/), qr/different.*close/, 'another rule would have decided otherwise');
my $report = said(qr/compare_shadow_model/);
like($report, qr/^ all +\| +\| +5 \| +3 \| +0\.6000 /m, 'the shadow model agrees in 3 of 5');
like($report, qr/"close, command close -> leave": 1/, 'and would not have closed');
is($s->sql('SELECT count(*) FROM fleetlog.command'), 2, 'no command came of it');
is($s->crashes, '', 'no crash');
$s->node->stop;
done_testing();
