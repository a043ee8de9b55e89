# H1, M11, M12: after a failover to a standby that had less, offsets are given out again.  A device that asks for what lies
# behind the last position it was told, with its epoch, is refused and told where to resume; nothing of the new log is
# missing then.  Without an epoch the position cannot be told from a good one.
use strict;
use warnings;
use Test::More;
use FleetlogTest;

my $s = FleetlogTest->new('primary');
$s->fleet(devices => 1);
my $standby = $s->new_standby('standby1');
$standby->node->start;

sub client
{
    my ($server, %opt) = @_;
    my $c = $server->raw(%opt);
    my $ack = $c->login(client_id => $opt{id} // 'reader', user => 'acme/d1', password => 'pw-d1');

    die 'refused' unless ref $ack && $ack->{reason} == 0;
    return $c;
}

sub ask
{
    my ($c, $filter, @wishes) = @_;
    my $body = pack('n', $c->next_pid);

    $body .= FleetlogTest::Mqtt::properties([ map { [ 38, @$_ ] } @wishes ]) if $c->{version} == 5;
    $c->send_raw(FleetlogTest::Mqtt::packet(0x82, $body . FleetlogTest::Mqtt::str($filter) . "\1"));
    return $c->expect('SUBACK');
}
sub told { my ($p, $name) = @_; my ($found) = grep { $_->[0] == 38 && $_->[1] eq $name } @{ $p->{properties} }; return $found ? $found->[2] : undef; }
sub texts { return join ' ', map { $_->{payload} } @_; }

my $device = client($s, id => 'writer');
$device->publish_acked('acme/d1/t', "both $_") for 1 .. 5;
$s->catch_up($standby);
$standby->node->stop;
$device->publish_acked('acme/d1/t', "lost $_") for 1 .. 5;

my $c = client($s);
is("@{ ask($c, 'acme/d1/t', [ 'fl-from', 'beginning' ], [ 'fl-position', 'on' ])->{reasons} }", '1', 'history and positions');
my @old = $c->messages(10);
is(texts(@old), join(' ', (map { "both $_" } 1 .. 5), (map { "lost $_" } 1 .. 5)), 'the device has read all of the old log');
my $next = told($old[-1], 'fl-shard') . ':' . (told($old[-1], 'fl-offset') + 1);
my $epoch = told($old[-1], 'fl-epoch');

$s->node->stop('immediate');
$standby->node->start;
$standby->node->promote;
$standby->wait_for_mqtt;
$device = client($standby, id => 'writer');
$device->publish_acked('acme/d1/t', "new $_") for 1 .. 12;

$c = client($standby);
my $ack = ask($c, 'acme/d1/t', [ 'fl-from', "$next\@$epoch" ], [ 'fl-position', 'on' ]);
is("@{ $ack->{reasons} }", '131', 'behind what it has read there is another log: refused');
like(FleetlogTest::Mqtt::property($ack, 31), qr/another one/, '... and told');
my $resume = told($ack, 'fl-resume');
is($resume, '0:5@' . $epoch, '... and where to resume: behind what both logs have');
is("@{ ask($c, 'acme/d1/t', [ 'fl-from', $resume ], [ 'fl-position', 'on' ])->{reasons} }", '1', 'which is granted');
my @new = $c->messages(12);
is(texts(@new), join(' ', map { "new $_" } 1 .. 12), '... and misses nothing of the new log');
is(told($new[0], 'fl-offset') . '@' . told($new[0], 'fl-epoch'), '5@' . ($epoch + 1), 'the same offset again, in the next epoch');
is("@{ ask($c, 'acme/d1/t', [ 'fl-from', '0:' . (told($new[-1], 'fl-offset') + 1) . '@' . told($new[-1], 'fl-epoch') ])->{reasons} }", '1', 'a position of the new log is good');
$c->disconnect;
my $three = client($standby, version => 4);
is("@{ ask($three, qq(\$s/$next\@$epoch/acme/d1/t))->{reasons} }", '128', 'a client of 3.1.1 is refused');
ok($standby->wait_for_log(qr/may not subscribe to .*the log is another one/), '... and the log says why');
is("@{ ask($three, qq(\$s/0:5\@$epoch/acme/d1/t))->{reasons} }", '1', '... and may go on where both logs are one');
is(texts($three->messages(12)), join(' ', map { "new $_" } 1 .. 12), '... and misses nothing');
$three->disconnect;

is($standby->crashes, '', 'no crash');
$standby->node->stop;
done_testing();
