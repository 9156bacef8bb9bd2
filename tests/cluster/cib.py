"""The first configuration of the cluster: its properties and the fence device."""


def cib(zones):
    """The CIB with these zones, each a group of its storage and the zone."""
    groups = "".join(group(zone) for zone in zones)
    places = "".join(
        f'<rsc_location id="place-{zone}" rsc="g-{zone}" node="{host}" score="50"/>' for zone, host in zones.items()
    )
    return f"""<cib validate-with="pacemaker-3.8" epoch="1" num_updates="0" admin_epoch="1">
<configuration>
<crm_config><cluster_property_set id="cib-bootstrap-options">
<nvpair id="p-stonith" name="stonith-enabled" value="true"/>
<nvpair id="p-quorum" name="no-quorum-policy" value="stop"/>
<nvpair id="p-deadtime" name="dc-deadtime" value="2s"/>
<nvpair id="p-action" name="stonith-action" value="reboot"/>
<nvpair id="p-timeout" name="stonith-timeout" value="20s"/>
</cluster_property_set></crm_config>
<nodes/>
<resources>
<primitive id="fence" class="stonith" type="fence_virtual_host">
<instance_attributes id="fence-a"><nvpair id="fence-list" name="pcmk_host_list" value="host1 host2 host3"/></instance_attributes>
<operations><op id="fence-m" name="monitor" interval="30s" timeout="20s"/></operations>
</primitive>
{groups}
</resources>
<constraints>{places}</constraints>
</configuration>
<status/>
</cib>
"""


def group(zone):
    """The group of a zone."""
    storage, name = f"storage-{zone}", f"zone-{zone}"
    return f"""<group id="g-{zone}">
<meta_attributes id="g-{zone}-m"><nvpair id="g-{zone}-s" name="resource-stickiness" value="100"/></meta_attributes>
<primitive id="{storage}" class="ocf" provider="heartbeat" type="Filesystem">
<instance_attributes id="{storage}-a">
<nvpair id="{storage}-1" name="device" value="/shared/lun-{zone}.img"/>
<nvpair id="{storage}-2" name="directory" value="/zones/{zone}"/>
<nvpair id="{storage}-3" name="fstype" value="ext4"/>
<nvpair id="{storage}-4" name="options" value="loop"/>
</instance_attributes>
<meta_attributes id="{storage}-m"><nvpair id="{storage}-5" name="failure-timeout" value="5s"/></meta_attributes>
<operations>
<op id="{storage}-o1" name="monitor" interval="10s" timeout="40s"/>
<op id="{storage}-o2" name="start" interval="0" timeout="60s"/>
<op id="{storage}-o3" name="stop" interval="0" timeout="60s"/>
</operations>
</primitive>
<primitive id="{name}" class="ocf" provider="zones" type="Zone">
<instance_attributes id="{name}-a">
<nvpair id="{name}-1" name="zone" value="{zone}"/>
<nvpair id="{name}-2" name="config" value="/zones/{zone}/cluster.cfg"/>
<nvpair id="{name}-3" name="probe" value="test -s /run/app.pid"/>
</instance_attributes>
<meta_attributes id="{name}-m">
<nvpair id="{name}-4" name="migration-threshold" value="5"/>
<nvpair id="{name}-5" name="failure-timeout" value="10s"/>
</meta_attributes>
<operations>
<op id="{name}-o1" name="monitor" interval="10s" timeout="20s"/>
<op id="{name}-o2" name="monitor" interval="31s" timeout="30s"><instance_attributes id="{name}-o2a"><nvpair id="{name}-o2b" name="OCF_CHECK_LEVEL" value="10"/></instance_attributes></op>
<op id="{name}-o3" name="start" interval="0" timeout="60s"/>
<op id="{name}-o4" name="stop" interval="0" timeout="60s"/>
</operations>
</primitive>
</group>
"""
